;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; How many arguments an operator takes, by lambda lists of the image and of the text.

(cl:in-package "AGENT-Q-IMAGE")

;; A count is a list of the minimum, the maximum (NIL if there is none), and where keywords start,
;; if they do.

(defun count-of-lambda-list (elements)
  "The count for ELEMENTS: :NAME for a parameter, lambda list keywords by name. NIL if one of them
isn't understood."
  (let ((least 0) (most 0) (state :required) (keys nil) (rest nil) (skip nil))
    (dolist (element elements (list least (if (or rest keys) nil most) (and (not rest) keys)))
      (cond (skip (setf skip nil))
            ((eq element :name)
             (case state
               (:required (incf least) (incf most))
               (:optional (incf most))))
            ((string= element "&OPTIONAL") (setf state :optional))
            ((or (string= element "&REST") (string= element "&BODY")) (setf rest t state :other))
            ((string= element "&KEY") (setf keys most state :other))
            ((string= element "&AUX") (setf state :other))
            ((string= element "&ALLOW-OTHER-KEYS"))
            ((or (string= element "&WHOLE") (string= element "&ENVIRONMENT")) (setf skip t))
            (t (return nil))))))

(defun lambda-list-elements (lambda-list)
  "The elements of LAMBDA-LIST, of the image, for COUNT-OF-LAMBDA-LIST."
  (loop for tail = lambda-list then (cdr tail)
        while (consp tail)
        collect (if (and (symbolp (car tail)) (prefixed-p "&" (symbol-name (car tail))))
                    (symbol-name (car tail))
                    :name)
          into elements
        finally (return (if tail (append elements (list "&REST" :name)) elements))))

(defun count-of-part (part)
  "The count for the lambda list PART, of the text; T if unknown."
  (cond ((eq (part-kind part) :list)
         (if (some (lambda (it) (member (part-kind it) '(:ellipsis :unclear))) (part-value part))
             t
             (or (count-of-lambda-list
                  (loop for (element . more) on (part-value part)
                        if (eq (part-kind element) :dot)
                          append (list "&REST")
                        else collect (if (and (name-part-p element)
                                              (prefixed-p "&" (part-value element)))
                                         (part-value element)
                                         :name)))
                 t)))
        ((part-named-p part "NIL") (list 0 0 nil))
        (t t)))

(defparameter *special-counts*
  '((if 2 3 nil) (quote 1 1 nil) (function 1 1 nil) (go 1 1 nil) (throw 2 2 nil) (catch 1 nil nil)
    (return-from 1 2 nil) (block 1 nil nil) (let 1 nil nil) (let* 1 nil nil) (flet 1 nil nil)
    (labels 1 nil nil) (the 2 2 nil) (unwind-protect 1 nil nil) (eval-when 1 nil nil)
    (multiple-value-prog1 1 nil nil) (load-time-value 1 2 nil))
  "The counts for special operators.")

(defun trusted-lambda-list-p (symbol)
  "Whether the image has the lambda list of SYMBOL as it is documented."
  (or (implementation-p "SBCL")
      (not (standard-symbol-p symbol))))

(defun image-lambda-list (symbol)
  "The lambda list of the operator SYMBOL, and whether it is known."
  (if (trusted-lambda-list-p symbol)
      (let ((values (multiple-value-list
                     (guarded (lambda () (backend "ARGLIST" symbol)) (constantly :not-available)))))
        (values (first values)
                (and (listp (first values)) (null (second values)))))
      (values nil nil)))

(defun count-in-image (symbol)
  "The count for the operator SYMBOL, or NIL. Of macros, only the lambda lists of standard ones are
certain: others may be made by functions."
  (cond ((special-operator-p symbol) (rest (assoc symbol *special-counts*)))
        ((and (macro-function symbol)
              (not (standard-symbol-p symbol)))
         nil)
        (t (multiple-value-bind (lambda-list known) (image-lambda-list symbol)
             (and known (count-of-lambda-list (lambda-list-elements lambda-list)))))))

(defun count-fits-p (count number)
  (or (not (consp count))
      (destructuring-bind (least most keys) count
        (and (>= number least)
             (or (null most) (<= number most))
             (or (null keys) (<= number keys) (evenp (- number keys)))))))

(defun count-words (count number)
  "In words, what is wrong with NUMBER arguments for COUNT."
  (destructuring-bind (least most keys) count
    (flet ((arguments (number) (format nil "~D argument~:P" number)))
      (cond ((and keys (>= number least))
             (format nil "takes keywords with values~[~; after its first argument~:;~:* after its first ~D arguments~]; one has no value"
                     keys))
            (t (format nil "takes ~A, not ~D"
                       (cond ((null most) (format nil "at least ~A" (arguments least)))
                             ((= least most) (arguments least))
                             (t (format nil "~D to ~A" least (arguments most))))
                       number))))))

(defun bare-names (tree)
  "TREE, a lambda list, with its symbols stripped of their packages."
  (cond ((consp tree) (cons (bare-names (car tree)) (bare-names (cdr tree))))
        ((and tree (symbolp tree) (not (keywordp tree))) (make-symbol (symbol-name tree)))
        (t tree)))

(defun lambda-list-text (symbol)
  "The lambda list of SYMBOL, or NIL."
  (multiple-value-bind (lambda-list known) (image-lambda-list symbol)
    (and known
         (if lambda-list
             (printed (bare-names lambda-list)
                      :limit 120 :circle nil
                      :writer (lambda (it stream)
                                (let ((*print-gensym* nil)) (prin1 it stream))))
             "()"))))
