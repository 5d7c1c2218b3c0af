;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The consent to effects: what a call reaches outside of the program is asked about where it
;;; happens, while it happens, in the threads of that call and nowhere else. This file has a call's
;;; side of it: what it was granted, who can be asked, what was denied, what it leaves running.

(cl:in-package "AGENT-Q-IMAGE")

;; Vectors, so that a later version of this text can come while an earlier one is in use.
(defstruct (consent (:type vector) (:copier nil))
  id client connection thread
  ;; Lists of a kind and perhaps the text that is all it covers; a table of parts of names of private
  ;; files; how many seconds a question waits.
  granted private (patience 600)
  ;; What the operation stands for by itself, of SCOPE-OF.
  scope
  ;; The packages that were there when it began: what comes with the implementation brings its own.
  (packages (list-all-packages))
  ;; What to do instead of asking: NIL, :DENY, or :ENDED once the call is over.
  mode
  ;; Lists of one element: what was denied, latest first, and the threads that it made. Then the
  ;; hooks with what they were before it.
  (denials (list '())) (threads (list '())) (hooks '())
  ;; A list of one element: the hooks when threads of its that were not to outlive it were told to end.
  (outstayed (list nil))
  ;; From the name of each file that it may write, and of memory that it got, to T.
  (written (make-hash-table :test 'equal))
  ;; The same from the addresses of hosts that it looked up.
  (hosts (make-hash-table :test 'equal))
  ;; The conses of code that was looked at and needs no question.
  (known (funcall 'make-hash-table :test 'eq :weakness :key :synchronized t))
  ;; The same of definitions, where nobody has looked at those before the call; NIL otherwise.
  carried
  ;; Held while a question is open.
  lock
  ;; The code that was sent; and a list of one element, what the user has denied, each with the reason.
  text (denied (list '()))
  ;; A list of one element: what the user stopped the call at, in words, or NIL.
  (stopped-at (list nil)))

(defun new-consent (id options mode)
  "What the call ID may do, by OPTIONS, those that Emacs gave it."
  (make-consent :id id :client *client* :mode mode
                :connection (client-value *client* "*EMACS-CONNECTION*")
                :thread (backend "CURRENT-THREAD")
                :granted (copy-tree (getf options :granted))
                :private (needle-table (getf options :private))
                :patience (or (getf options :patience) 600)
                :lock (backend "MAKE-LOCK" :name "agent-q question")))

;;; What all threads share is in lists of one element, which is changed under the lock.

(defun hold-one (held one)
  (call-with-lock (lambda () (push one (first held)))))

(defun drop-one (held one)
  (call-with-lock (lambda () (setf (first held) (remove one (first held) :test #'eq)))))

;;; What needs no question

(defun granted-p (consent effect)
  "Whether CONSENT was given for EFFECT beforehand, with the form or by the operation itself."
  (or (if (equal (effect-kind effect) "run-form")
          ;; Of several names the form that was agreed to has to have all.
          (and (effect-texts effect)
               (every (lambda (text)
                        (member (list "run-form" text) (consent-granted consent) :test #'equal))
                      (effect-texts effect)))
          (loop for (kind text more) in (consent-granted consent)
                  thereis (and (equal kind (effect-kind effect))
                               (or (null text) (covers-p text more effect)))))
      (and (equal (effect-kind effect) "connect")
           (gethash (effect-detail effect) (consent-hosts consent)))
      (and (equal (effect-kind effect) "take-over")
           (gethash (effect-target effect) (consent-written consent)))
      (and (equal (effect-kind effect) "redefine")
           (some (lambda (it)
                   (and (packagep it) (not (member it (consent-packages consent) :test #'eq))))
                 (effect-detail effect)))
      (in-scope-p (consent-scope consent) effect
                  (lambda (name) (gethash name (consent-written consent))))))

(defun covers-p (text more effect)
  "Whether TEXT, with MORE to it or not, means what EFFECT is about."
  (let ((files (effect-files effect)))
    (cond ((null files)
           (or (member text (effect-texts effect) :test #'equal)
               ;; The name of a system may look like that of a file.
               (and more (member more (effect-texts effect) :test #'equal))))
          ((equal (effect-kind effect) "make-directory")
           (loop for directory = text then (directory-part directory)
                 until (equal directory "/")
                   thereis (names-file-p directory (first files))))
          ((names-file-p text (first files))
           (if (second files)
               (and more (names-file-p more (second files)))
               (or (equal (effect-kind effect) "load-file") (equal more (effect-detail effect))))))))

(defun names-file-p (text name)
  "Whether TEXT, an absolute name, is of the file whose real name is NAME."
  (let ((text (string-right-trim "/" text)))
    (or (equal name (ignore-errors (real-native-name text :link t)))
        (equal name (ignore-errors (real-native-name text))))))
