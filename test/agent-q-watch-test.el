;;; agent-q-watch-test.el --- What code does outside is asked about  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: GPL-3.0-or-later

;;; Commentary:

;; Code that runs in an image reaches for files, programs and the rest; each
;; such effect is asked about when it happens.  Here a small function answers
;; in the place of a user.

;;; Code:

(require 'agent-q-test)
(require 'agent-q-test-image)

(defvar agent-q-watch-test--answer nil
  "A function of a question that gives \"allow\", \"deny\", \"stop\" or nil.
It may also give a list of that and a reason.")

(defvar agent-q-watch-test--questions nil
  "The questions that came, and those taken back, latest first.")

(defun agent-q-watch-test--take (connection question)
  "Answer QUESTION, a property list, which came over CONNECTION."
  (push question agent-q-watch-test--questions)
  (unless (plist-get question :withdrawn)
    (let ((answer (funcall agent-q-watch-test--answer question)))
      (when answer
        (agent-q-image--ask
         connection :rex
         `(cl:funcall (cl:find-symbol "ANSWER" "AGENT-Q-IMAGE")
                      ,(plist-get question :call) ,(plist-get question :question)
                      ,@(if (consp answer) answer (list answer)))
         t #'ignore)))))

(defmacro agent-q-watch-test--with (connection answer &rest body)
  "Evaluate BODY while what is asked over CONNECTION gets ANSWER.
That is a function, or one of \"allow\", \"deny\", \"stop\" and nil."
  (declare (indent 2) (debug t))
  `(let* ((agent-q-watch-test--questions nil)
          (answer ,answer)
          (agent-q-watch-test--answer (if (functionp answer) answer (lambda (_) answer)))
          (prefix "agent-q effect: ")
          (advice (lambda (function process event)
                    (pcase event
                      (`(:background-message ,(and text (pred (string-prefix-p prefix))))
                       (agent-q-watch-test--take
                        ,connection
                        (car (read-from-string (substring text (length prefix)))))
                       t)
                      (_ (funcall function process event))))))
     (unwind-protect
         (progn
           (advice-add 'agent-q-image--on-event :around advice)
           ,@body)
       (advice-remove 'agent-q-image--on-event advice))))

(defun agent-q-watch-test--words ()
  "Return what was asked, in order."
  (delq nil (mapcar (lambda (question) (plist-get question :words))
                    (reverse agent-q-watch-test--questions))))

(defun agent-q-watch-test--eval (connection form &rest options)
  "Return the reply to FORM, watched over CONNECTION with OPTIONS."
  (agent-q-test-image-eval
   connection (string-replace "DIR/" (file-name-as-directory agent-q-test-directory) form)
   :watch (append options '(:patience 30 :private (".env" "id_rsa")))))

(defun agent-q-watch-test--file (name)
  "Return the name of the file NAME that forms call DIR/NAME, made anew."
  (let ((file (expand-file-name name agent-q-test-directory)))
    (write-region "1" nil file nil 'silent)
    (file-truename file)))

(defun agent-q-watch-test--values (reply)
  "Return the values of the last form in REPLY."
  (plist-get (car (last (plist-get (plist-get reply :value) :forms))) :values))

(agent-q-test-image-on-each watch-denies-what-is-not-allowed ()
  "What the user denies doesn't happen, and the reply says so."
  (let ((file (agent-q-watch-test--file "a.txt")))
    (agent-q-watch-test--with connection '("deny" "Not that one.")
      (let ((reply (agent-q-watch-test--eval
                    connection "(list 1 (ignore-errors (delete-file \"DIR/a.txt\")))")))
        (should (equal '("(1 NIL)") (agent-q-watch-test--values reply)))
        (should (equal (list (concat "delete " file)) (plist-get reply :denials)))
        (should (file-exists-p file))
        (let ((question (car agent-q-watch-test--questions)))
          (should (equal "delete-file" (plist-get question :effect)))
          (should (equal (list file) (plist-get question :files)))
          (should (string-match-p "DELETE-FILE" (plist-get question :form)))))
      (let ((reply (agent-q-watch-test--eval connection "(delete-file \"DIR/a.txt\")")))
        (should (eq :error (plist-get reply :outcome)))
        (should (equal (format "Not allowed: delete %s. Not that one." file)
                       (plist-get reply :message)))
        (should (member "USE-VALUE" (mapcar #'car (plist-get reply :restarts))))))))

(agent-q-test-image-on-each watch-allows-and-stops ()
  "What the user allows happens as if there were no watch; stopping ends the call."
  (let ((file (agent-q-watch-test--file "b.txt")))
    (agent-q-watch-test--with connection "stop"
      (let ((reply (agent-q-watch-test--eval
                    connection "(handler-case (delete-file \"DIR/b.txt\") (condition () 7))")))
        (should (eq :cancelled (plist-get reply :outcome)))
        (should (plist-get reply :denials))
        (should (file-exists-p file))))
    (agent-q-watch-test--with connection "allow"
      (let ((reply (agent-q-watch-test--eval connection "(delete-file \"DIR/b.txt\")")))
        (should (equal '("T") (agent-q-watch-test--values reply)))
        (should-not (plist-get reply :denials))
        (should-not (file-exists-p file))))))

(agent-q-test-image-on-each watch-asks-in-threads-and-for-programs ()
  "Threads of a call are watched, and programs are told as one types them."
  (agent-q-watch-test--with connection "deny"
    (agent-q-watch-test--eval
     connection "(sb-thread:join-thread (sb-thread:make-thread
                   (lambda () (sb-ext:run-program \"touch\" '(\"DIR/c.txt\") :search t)))
                  :default nil)")
    (should (equal (list (format "run `touch %sc.txt`"
                                 (file-name-as-directory agent-q-test-directory)))
                   (agent-q-watch-test--words)))
    (should (equal "touch" (plist-get (car agent-q-watch-test--questions) :target)))))

(agent-q-test-image-on-each watch-does-not-ask-for-what-was-granted ()
  "Consent that came with the call covers what it says and nothing else."
  (agent-q-watch-test--file "d.txt")
  (agent-q-watch-test--file "e.txt")
  (agent-q-watch-test--with connection "deny"
    (let ((reply (agent-q-watch-test--eval
                  connection "(delete-file \"DIR/d.txt\") (ignore-errors (delete-file \"DIR/e.txt\"))"
                  :granted `(("delete-file" ,(expand-file-name "d.txt" agent-q-test-directory))
                             ("run-program")))))
      (should (= 1 (length (plist-get reply :denials))))
      (should (= 1 (length (agent-q-watch-test--words)))))))

(agent-q-test-image-on-each watch-leaves-the-user-alone ()
  "Nobody is asked about what the user's own code does."
  (agent-q-watch-test--with connection "deny"
    (agent-q-test-image-directly
     connection (format "(delete-file %S)" (agent-q-watch-test--file "f.txt")))
    (should-not agent-q-watch-test--questions)
    (agent-q-test-image-eval
     connection (format "(delete-file %S)" (agent-q-watch-test--file "f.txt")))
    (should-not agent-q-watch-test--questions)))

(agent-q-test-image-on-each watch-does-not-wait-for-ever ()
  "A question that nobody answers is a denial, and is taken back."
  (let ((file (agent-q-watch-test--file "g.txt")))
    (agent-q-watch-test--with connection nil
      (let ((reply (agent-q-test-image-eval
                    connection (format "(ignore-errors (delete-file %S))" file)
                    :watch '(:patience 1))))
        (should (equal (list (concat "delete " file)) (plist-get reply :denials)))
        (should (plist-get (car agent-q-watch-test--questions) :withdrawn))
        (should (file-exists-p file))))))

(provide 'agent-q-watch-test)
;;; agent-q-watch-test.el ends here
