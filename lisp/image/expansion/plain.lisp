;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Forms that certainly define nothing: literals, variables and standard operators that don't call
;;; their arguments. For those the journal need not compare the image before and after, and macros
;;; expand the same way after them.

(cl:in-package "AGENT-Q-IMAGE")

(define-table +plain-functions+
  '(+ - * / 1+ 1- = /= < > <= >= max min abs mod rem floor ceiling round truncate gcd lcm expt sqrt
    exp log sin cos tan signum isqrt ash logand logior logxor lognot evenp oddp zerop plusp minusp
    numberp integerp rationalp floatp realp complexp float rational numerator denominator
    eq eql equal equalp not null atom consp listp symbolp stringp characterp functionp arrayp vectorp
    cons list list* car cdr caar cadr cdar cddr first second third fourth fifth rest last nth nthcdr
    butlast append reverse revappend copy-list copy-tree list-length getf values identity
    vector aref svref array-dimensions array-dimension array-rank array-total-size fill-pointer
    char schar string-upcase string-downcase string-capitalize string= string/= string< string>
    string-equal char= char< char> char-code code-char char-upcase char-downcase digit-char-p
    symbol-name symbol-package package-name find-package keywordp boundp fboundp gethash
    hash-table-count type-of get-universal-time get-internal-real-time get-internal-run-time
    lisp-implementation-type lisp-implementation-version machine-type software-type)
  "Functions that don't call their arguments and change nothing.")

(define-table +plain-operators+ '(progn and or when unless if multiple-value-list prog1)
  "Operators whose arguments are all forms.")

(defun plain-variable-p (symbol)
  (or (keywordp symbol)
      ;; A symbol macro may stand for any form.
      (eq symbol (macroexpand-1 symbol))))

(defun plain-binding-p (binding)
  (or (symbolp binding)
      (and (consp binding) (symbolp (first binding))
           (or (null (rest binding))
               (and (consp (rest binding)) (null (cddr binding)) (plain-form-p (second binding)))))))

(defun plain-form-p (form)
  "Whether evaluating FORM certainly defines nothing; NIL if a quick look can't tell."
  (cond ((symbolp form) (plain-variable-p form))
        ((atom form) t)
        ((not (ignore-errors (list-length form))) nil)
        ((member (first form) '(quote function))
         (not (and (consp (second form)) (eq (first form) 'function))))
        ((member (first form) '(let let*))
         (and (listp (second form)) (every #'plain-binding-p (second form))
              (every #'plain-form-p (cddr form))))
        ((or (member (first form) +plain-functions+) (member (first form) +plain-operators+))
         (every #'plain-form-p (rest form)))))
