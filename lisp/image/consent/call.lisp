;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; The consent to effects. What a call reaches outside of the program is asked about at the moment
;;; it happens, in the threads of that call only. This file has the call's side: what it was
;;; granted, who can be asked, what was denied, what it leaves running.

(cl:in-package "AGENT-Q-IMAGE")

;; Vectors, so that a newer version of this text can arrive while an older one is in use.
(defstruct (consent (:type vector) (:copier nil))
  id client connection thread
  ;; Lists of a kind and perhaps the only text that it covers; a table of substrings that names of
  ;; private files have; how many seconds a question waits.
  granted private (patience 600)
  ;; What the operation implies by itself, of SCOPE-OF.
  scope
  ;; The packages that existed when it began: modules of the implementation bring their own.
  (packages (list-all-packages))
  ;; NIL to ask; :DENY not to; :ENDED once the call is over. Then the chat that it is for, as Emacs
  ;; names it.
  mode chat
  ;; Lists of one element: what was denied, latest first; the threads that it made. Then the hooks
  ;; with their values before the call.
  (denials (list '())) (threads (list '())) (hooks '())
  ;; The same: a cons for each effect that is asked about, or is about to be; and whether the call is
  ;; over.
  (asking (list '())) (over (list nil))
  ;; A list of one element: the hooks when its threads that must not outlive it were told to end.
  (outstayed (list nil))
  ;; From the name of each file that it may write, and of memory that it allocated, to T.
  (written (make-hash-table :test 'equal))
  ;; The same from the addresses of hosts that it looked up.
  (hosts (make-hash-table :test 'equal))
  ;; The conses of code that was checked and needs no question.
  (known (funcall 'make-hash-table :test 'eq :weakness :key :synchronized t))
  ;; The same for definitions, if they weren't assessed before the call; NIL otherwise.
  carried
  ;; Held while a question is open.
  lock
  ;; The code that was sent; and a list of one element: what the user has denied, with the reasons.
  text (denied (list '()))
  ;; A list of one element: the effect, in words, at which the user stopped the call, or NIL.
  (stopped-at (list nil)))

(defun new-consent (id options mode)
  "The consent of the call ID, with the OPTIONS that Emacs gave it."
  (make-consent :id id :client *client* :mode mode
                :connection (client-value *client* "*EMACS-CONNECTION*")
                :thread (backend "CURRENT-THREAD")
                :granted (copy-tree (getf options :granted))
                :private (needle-table (getf options :private))
                :patience (or (getf options :patience) 600)
                :lock (backend "MAKE-LOCK" :name "agent-q question")))

;;; What all threads share is in lists of one element, which are changed under the lock.

(defun hold-one (held one)
  (call-with-lock (lambda () (push one (first held)))))

(defun drop-one (held one)
  (call-with-lock (lambda () (setf (first held) (remove one (first held) :test #'eq)))))

;;; What needs no question

(defun granted-p (consent effect)
  "Whether there was consent to EFFECT beforehand, given with the form or implied by the operation."
  (or (if (equal (effect-kind effect) "run-form")
          ;; If there are several names, the approved form must have all of them.
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
  "Whether a grant of TEXT, and perhaps MORE, covers EFFECT."
  (let ((files (effect-files effect)))
    (cond ((null files)
           (or (member text (effect-texts effect) :test #'equal)
               ;; A system's name may look like a file's.
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
  "Whether TEXT, an absolute name, names the file whose real name is NAME."
  (let ((text (string-right-trim "/" text)))
    (or (equal name (ignore-errors (real-native-name text :link t)))
        (equal name (ignore-errors (real-native-name text))))))
